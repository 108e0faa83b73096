"""The tasks of a store as a person looks at them and acts on them, without an engine: nothing here runs a task."""
