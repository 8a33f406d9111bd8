"""What may be published: the contract, the state, answers and their intervals, charges, exports.

Nothing here reaches the table, the loop or a session's files.
"""
