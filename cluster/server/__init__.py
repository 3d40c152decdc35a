"""The raft leader's service: what time it is, what is proposed, who waits, who asks."""
