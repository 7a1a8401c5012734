"""No DAG: Airflow's page shows what is wrong with a registered topology as an import error of this file.

So the DAGs of the other topologies stay as they are.
"""

from acker.airflow import check_topologies

check_topologies()
