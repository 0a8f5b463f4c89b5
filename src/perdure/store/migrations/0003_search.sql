-- What lists of executions are found by, newest first, however many have ended.
CREATE INDEX executions_by_state ON executions (company, state, id);
CREATE INDEX executions_by_agent ON executions (company, agent, state, id);
