"""How many parameters a language model has, and what one embedding matrix or two make of it."""
