"""The loop: online private multiplicative weights, in three phases that are kept apart.

*Propose* looks at public state and questions, and decides what will be tested, against which numbers.
*Draw* looks at the data: it is a function of a recorded proposal, the table and 32 recorded bytes, in exact
integers throughout, so that replaying it after a crash gives the same outcome bit by bit.
*Settle* is public again: it makes answers and charges of the outcome, and corrects the model.

A session is a tuple of tiers, each one sparse vector with what it tests and measures (``Tier``): whole
marginals, then questions that no marginal holds; in the textbooks, questions alone.
"""
