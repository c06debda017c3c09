"""Stage `settings`: stop before anything runs if params.yaml is wrong or older than conf/."""

from tiebench.composition import guard
from tiebench.stage import run_stage

if __name__ == "__main__":
    run_stage(guard)
