"""The golden set: what Weft did when its behaviour was last meant to change.

``runs.txt`` and ``plans.txt`` have arguments of ``weft run``, one scenario a line, ``tables.txt``
those of several runs that are compared; ``traces.txt`` has exchanges of the transport;
``outputs.txt``, ``helps.txt`` and ``errors.txt`` have arguments of ``weft``. The JSON files beside
them have what came of each line. A change that is not meant to change behaviour leaves all of them
as they are; one that is says so, and writes anew what it means to change::

    python -m tests.golden              # what differs from the files
    python -m tests.golden show LINE    # a run's results, to be compared with another commit's
    python -m tests.golden write        # the files anew
"""
