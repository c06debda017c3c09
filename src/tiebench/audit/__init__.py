"""Whether a checkpoint stores one embedding matrix or two, and whether its config.json agrees."""
