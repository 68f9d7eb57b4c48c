"""An index over a table of PostgreSQL with pgvector.

pip install 'kinrank[pgvector]'; python examples/pgvector_store.py 'host=localhost dbname=...'

It makes the table kinrank_example, for the length of the session only.
"""

import sys

import psycopg

import kinrank
from kinrank.stores import PgVectorStore

data = kinrank.datasets.load("toy")
queries, gallery = data.query.features, data.gallery.features

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.execute(
        "CREATE TEMP TABLE kinrank_example (id int PRIMARY KEY, embedding vector(8))"
    )
    with connection.cursor().copy("COPY kinrank_example FROM STDIN") as copy:
        for row, vector in enumerate(gallery.tolist()):
            copy.write_row((row, str(vector)))
    connection.execute("CREATE INDEX ON kinrank_example USING hnsw (embedding vector_l2_ops)")

    index = kinrank.attach(PgVectorStore(connection, "kinrank_example"))
    plain, ranking = index.search(queries, 20, base=True), index.search(queries, 20)

for title, found in (("pgvector", plain), ("kinrank", ranking)):
    right = data.gallery.labels[found.ids] == data.query.labels[:, None]
    print(f"{title:<9} {right.mean():6.1%} of the first 20 are right")
print("query 0:", *ranking.ids[0, :5])
