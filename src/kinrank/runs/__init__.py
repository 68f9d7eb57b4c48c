"""Where the stages of a call run: in this process, in files under a memory budget, on Ray."""
