"""Vocabulary scaling (Tao et al. 2024, arXiv 2407.13623), by arithmetic from the released fits."""
