"""The contract between processes: the verbs, their HTTP form, errors and stream frames."""
