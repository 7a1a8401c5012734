"""`make run`: the word count under Airflow, through failures, retries and killings, and its check."""
