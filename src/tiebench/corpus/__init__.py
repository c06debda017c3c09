"""Cleaning, splits, tokenizer, and the token files that models are trained on."""
