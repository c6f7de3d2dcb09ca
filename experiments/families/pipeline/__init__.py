"""Pipeline-parallel training steps: schedules of stages, their times, and the models they train.

A stage is a mesh of hosts. `schedules` says in which order each stage does what, `models` how much
computation that is and which tensors go from stage to stage, `timing` how long it all takes on a
network without contention, and `gantt` draws it.
"""
