"""Published claims, and the verdict that the tables of reports give on each."""
