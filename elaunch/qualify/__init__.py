"""The qualification: a matrix of what must work on a cluster, each cell judged, and a report (docs/qualify.md).

Values: ``cells``, ``matrix``, ``judging``, ``verdicts``, ``report``, ``diff``, and the pages (``page``, ``plots``).
What starts jobs: ``running``, ``session``, ``launches``, ``training``, ``faulting``, ``railing``. What runs inside of
their ranks, torch included: ``programs``.
"""
