"""One Raft node of tenure, its client, and the command line ``python -m cluster``."""
