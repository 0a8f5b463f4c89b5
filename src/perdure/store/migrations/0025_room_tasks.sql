-- Tasks in one state, and those that are for somebody, in order: a page of them costs what it holds, however many others
-- there are. State comes before the order: whoever wants all of them asks for each state by itself.

CREATE INDEX room_tasks_in_state ON room_tasks (room, state, seq);
CREATE INDEX room_tasks_to_company ON room_tasks (room, to_company, state, seq);
CREATE INDEX room_tasks_to_agent ON room_tasks (room, to_company, to_agent, state, seq) WHERE to_agent <> '';
