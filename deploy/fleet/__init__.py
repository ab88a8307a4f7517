"""A fleet of scripted agents with real tools, which re-enacts reported loops among ordinary work and is
recorded.

Where to look: ``incidents`` and ``healthy`` say what the agents do, ``expectations`` how each must be judged,
``toolbox`` and ``tools`` what they call, ``session`` and ``fleet`` how they are run, ``record`` is the
command.
"""
