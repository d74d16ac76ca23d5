"""What a loader tells the controller of its prefetch's health, and what it is told in return.

The training thread leaves a small tuple per step (``moment``). A thread of the loader sums it up
(``figures``), ranks of one host find a spokesman among themselves (``seat``), who adds them up
(``tally``) and reports for all (``link``, ``reporter``). The loop never waits for any of it, and
batches never depend on it.
"""
