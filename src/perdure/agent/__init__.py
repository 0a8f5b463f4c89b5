"""What an agent is: its declaration, its tools, its compiled form and the loop that runs it."""
