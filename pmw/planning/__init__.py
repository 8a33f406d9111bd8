"""Planning: noise scales, thresholds and limits, and what a session will give.

Nothing here sees a record: the inputs are the schema, the budget, the options and released numbers.
"""
