"""What a user writes with: resources, tasks, stages, pipelines. Imports nothing else of ours."""
