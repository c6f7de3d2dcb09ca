"""The exercises of p4lang/tutorials, each brought up from its own files, with its solution, and
asked what its README promises. Whoever wants to see it fetches them::

    git clone https://github.com/p4lang/tutorials
    sudo .venv/bin/python -m tests.tutorials tutorials

Nothing of theirs is part of Weft. ``--write`` makes docs/tutorials.md anew.
"""
