"""Figures as they are printed, as data, apart from code that training reaches."""
