"""Labelled data: from a source to a folder of examples with labels, split by sentence."""
