"""Files of S3, as the server moto plays it, read by statements of the server."""

import io
import socket
import subprocess
import sys
import time
from contextlib import closing

import boto3
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same

with closing(socket.socket()) as free:
    free.bind(("127.0.0.1", 0))
    S3_PORT = free.getsockname()[1]
ENDPOINT = f"127.0.0.1:{S3_PORT}"

moto = subprocess.Popen(
    [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(S3_PORT)],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
for _ in range(200):
    with closing(socket.socket()) as probe:
        if probe.connect_ex(("127.0.0.1", S3_PORT)) == 0:
            break
    time.sleep(0.1)
s3 = boto3.client(
    "s3", endpoint_url=f"http://{ENDPOINT}", region_name="us-east-1",
    aws_access_key_id="key", aws_secret_access_key="hush",
)
s3.create_bucket(Bucket="lake")


def connect():
    return psycopg.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE, sslmode=SSLMODE,
        autocommit=True,
    )


def parquet(values):
    file = io.BytesIO()
    pq.write_table(pa.table({"k": values, "d": [value % 7 for value in values]}), file)
    return file.getvalue()


@check
def parquet_csv_and_json_of_a_bucket():
    for year in (2023, 2024):
        key = f"tables/year={year}/part 0.parquet"
        s3.put_object(Bucket="lake", Key=key, Body=parquet(range(year * 10)))
    # More keys than one answer lists.
    for number in range(1100):
        s3.put_object(Bucket="lake", Key=f"many/{number:04}.csv", Body=b"a\n%d\n" % number)
    s3.put_object(Bucket="lake", Key="o.ndjson", Body=b'{"id": 1, "tags": ["x", "y"]}\n')
    with connect() as connection:
        connection.execute(
            f"CREATE SECRET lake (TYPE s3, KEY_ID 'key', SECRET 'hush', ENDPOINT '{ENDPOINT}', "
            "USE_SSL false, URL_STYLE path)"
        )
        rows = "SELECT year, count(*), max(k) FROM read_parquet('s3://lake/tables/*/*.parquet') "
        rows = connection.execute(rows + "GROUP BY year ORDER BY year").fetchall()
        same([tuple(int(value) for value in row) for row in rows],
             [(2023, 20230, 20229), (2024, 20240, 20239)])
        many = connection.execute("SELECT count(*), sum(a) FROM 's3://lake/many/*.csv'").fetchone()
        same([int(value) for value in many], [1100, 1099 * 1100 // 2])
        same(connection.execute("SELECT tags[2] FROM 's3://lake/o.ndjson'").fetchone(), ("y",))


@check
def a_new_version_is_read_and_an_old_one_is_not():
    with connect() as connection:
        query = "SELECT count(*) FROM 's3://lake/version.parquet'"
        for count in (10, 20):
            s3.put_object(Bucket="lake", Key="version.parquet", Body=parquet(range(count)))
            same(connection.execute(query).fetchone(), (count,))
        counts = "SELECT requests, misses FROM terrace.remote_files"
        before = connection.execute(counts).fetchone()
        same(connection.execute(query).fetchone(), (20,))
        same(connection.execute(counts).fetchone(), before)


@check
def secrets_are_not_shown():
    with connect() as connection:
        secrets = "SELECT name, scope, has_keys FROM terrace.secrets"
        same(connection.execute(secrets).fetchall(), [("lake", "s3://", True)])
        connection.execute("DROP SECRET lake")
        same(connection.execute(secrets).fetchall(), [])


try:
    run()
finally:
    moto.kill()
