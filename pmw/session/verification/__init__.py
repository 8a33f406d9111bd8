"""Verification: what a session's file holds, checked against its contract, its plans and itself.

Every charge follows from its event and the contract, and every model from the measurements. Answers are
compared with both, and their values are not computed again. Only public numbers are shown; of secrets,
whether they are there.
"""
