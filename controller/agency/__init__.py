"""Where agents are enrolled and served: trust, doors, and a session for each agent. controller/agents.py runs it."""
