"""What there is to choose from: the files of conf/, and the published models."""
