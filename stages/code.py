"""Stage `code`: what each stage depends on beside parameters and inputs."""

from pathlib import Path

from tiebench.digests import write_digests

if __name__ == "__main__":
    write_digests(Path("code"))
