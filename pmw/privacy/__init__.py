"""Privacy: the budget and its filter, random bits, exact noise and its tail bounds."""
