-- What agents there are, and what each was, newest first. Written where a definition is new, and at no other start.
CREATE INDEX definitions_by_agent ON definitions (company, agent, created_ms, digest);
