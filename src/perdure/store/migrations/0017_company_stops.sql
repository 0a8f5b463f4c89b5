-- Companies that may do nothing in any room for now.
CREATE TABLE company_stops (
    company TEXT NOT NULL PRIMARY KEY,
    by_company TEXT NOT NULL,
    by_name TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_ms BIGINT NOT NULL
) {narrow};
