"""The building blocks of a pipeline: resources, tasks, stages, pipelines. Imports no other layer except errors."""
