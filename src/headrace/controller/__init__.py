"""The controller: hears of every job's prefetch health and gives storage bandwidth by it.

``service`` and ``controller`` are the rim. ``steward`` turns messages and the passing of time
into events of ``policy.reservation`` and carries its actions out: ``division`` splits a job's
quota over those who read for it, ``crossing`` finds the links that its bytes cross, ``ledger``
remembers what was decided and why, ``journal`` keeps what a restart must not lose.
"""
