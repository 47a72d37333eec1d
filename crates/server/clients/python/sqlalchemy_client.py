"""SQLAlchemy and pandas: reflection, Core, ORM, streamed results, data frames."""

import datetime as dt
from decimal import Decimal

import pandas
from sqlalchemy import (
    BigInteger, Column, Date, Float, MetaData, Numeric, String, Table, create_engine, func, inspect,
    select, text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from checks import SSLMODE, URL, check, run, same

engine = create_engine(f"postgresql+psycopg://{URL}?sslmode={SSLMODE}")
metadata = MetaData()
orders = Table(
    "alchemy_orders", metadata,
    Column("id", BigInteger), Column("customer", String(40)), Column("total", Numeric(12, 2)),
    Column("placed", Date), Column("weight", Float(53)),
)


@check
def tables_are_made_and_reflected():
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW IF EXISTS alchemy_view"))
    orders.drop(engine, checkfirst=True)
    orders.create(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS alchemy"))
        connection.execute(text("CREATE VIEW alchemy_view AS SELECT id FROM alchemy_orders"))
    seen = inspect(engine)
    assert orders.name in seen.get_table_names()
    assert "alchemy_view" in seen.get_view_names()
    assert "alchemy" in seen.get_schema_names()
    assert seen.has_table("alchemy_orders") and not seen.has_table("alchemy_missing")
    columns = {column["name"]: column for column in seen.get_columns("alchemy_orders")}
    same(list(columns), ["id", "customer", "total", "placed", "weight"])
    same(str(columns["id"]["type"]), "BIGINT")
    same(str(columns["total"]["type"]), "NUMERIC(12, 2)")
    same(str(columns["placed"]["type"]), "DATE")
    assert columns["customer"]["nullable"]
    seen.get_pk_constraint("alchemy_orders")
    same(seen.get_foreign_keys("alchemy_orders"), [])
    same(seen.get_indexes("alchemy_orders"), [])
    same(seen.get_unique_constraints("alchemy_orders"), [])
    same(seen.get_check_constraints("alchemy_orders"), [])
    again = Table("alchemy_orders", MetaData(), autoload_with=engine)
    same([column.name for column in again.columns], [column.name for column in orders.columns])


@check
def all_tables_are_reflected_at_once():
    found = MetaData()
    found.reflect(engine)
    assert "alchemy_orders" in found.tables


@check
def rows_are_written_and_read():
    rows = [
        dict(id=n, customer=f"c{n % 7}", total=Decimal(n) / 4, placed=dt.date(2024, 1, 1 + n % 28),
             weight=n / 8)
        for n in range(1000)
    ]
    with engine.begin() as connection:
        connection.execute(orders.insert(), rows)
    with engine.connect() as connection:
        query = (
            select(orders.c.customer, func.count(), func.sum(orders.c.total))
            .where(orders.c.id < 700).group_by(orders.c.customer).order_by(orders.c.customer)
        )
        found = connection.execute(query).all()
        same(len(found), 7)
        same(found[0], ("c0", 100, Decimal(sum(range(0, 700, 7))) / 4))
        changed = connection.execute(
            orders.update().where(orders.c.id.in_([1, 2, 3])).values(customer="changed")
        )
        same(changed.rowcount, 3)
        connection.rollback()
        query = select(func.count()).where(orders.c.customer == "changed")
        same(connection.execute(query).scalar(), 0)


@check
def results_are_streamed():
    with engine.connect().execution_options(stream_results=True, max_row_buffer=100) as connection:
        result = connection.execute(select(orders.c.id).order_by(orders.c.id))
        same([row.id for row in result.fetchmany(2)], [0, 1])
        same(sum(len(part) for part in result.partitions(100)), 998)


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "alchemy_notes"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    text: Mapped[str | None]


@check
def objects_are_kept():
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS alchemy_notes"))
        connection.execute(text("CREATE TABLE alchemy_notes (id BIGINT NOT NULL, text VARCHAR)"))
    with Session(engine) as session:
        session.add_all([Note(id=n, text=f"note {n}") for n in range(20)])
        session.commit()
        note = session.get(Note, 7)
        note.text = "changed"
        session.delete(session.get(Note, 8))
        session.commit()
    with Session(engine) as session:
        same(session.get(Note, 7).text, "changed")
        same(session.query(Note).count(), 19)


@check
def data_frames_are_read_and_written():
    frame = pandas.read_sql("SELECT id, customer, weight FROM alchemy_orders ORDER BY id", engine)
    same(frame.shape, (1000, 3))
    same(str(frame["id"].dtype), "int64")
    same(float(frame["weight"].sum()), sum(n / 8 for n in range(1000)))
    parts = pandas.read_sql("SELECT id FROM alchemy_orders", engine, chunksize=300)
    same([len(part) for part in parts], [300, 300, 300, 100])
    frame.to_sql("alchemy_frame", engine, if_exists="replace", index=False)
    again = pandas.read_sql_table("alchemy_frame", engine)
    same(again.sort_values("id").reset_index(drop=True).equals(frame), True)


run()
