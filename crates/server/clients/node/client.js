// node-postgres: values, prepared statements, cursors, streams, COPY, transactions, cancellation.

import assert from "node:assert/strict";
import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";
import pg from "pg";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";

const environment = process.env;
const place = {
  host: environment.TERRACE_HOST ?? "127.0.0.1",
  port: Number(environment.TERRACE_PORT),
  user: environment.TERRACE_USER,
  password: environment.TERRACE_PASSWORD,
  database: environment.TERRACE_DATABASE ?? "main",
  ssl: environment.TERRACE_SSLMODE === "disable" ? false : { rejectUnauthorized: false },
};

async function connected(work) {
  const client = new pg.Client(place);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

const NUMBERS = "SELECT value AS x FROM generate_series(1, $1::bigint) AS g(value) ORDER BY value";

const checks = {
  "values and parameters": () =>
    connected(async (client) => {
      const text =
        "SELECT $1::integer AS i, $2::text AS t, $3::boolean AS b, $4::double precision AS f, " +
        "$5::timestamptz AS z, $6::bytea AS y, $7::numeric(6, 2) AS n, $8::text[] AS a";
      const z = new Date("2024-02-29T12:34:56.789Z");
      const values = [7, "it's \u2602", true, 0.1, z, Buffer.from([0, 255]), "12.50", ["a", "b,c"]];
      const { rows } = await client.query(text, values);
      assert.deepEqual(rows, [
        {
          i: 7,
          t: "it's \u2602",
          b: true,
          f: 0.1,
          z,
          y: Buffer.from([0, 255]),
          n: "12.50",
          a: ["a", "b,c"],
        },
      ]);
    }),
  "named statements are prepared once": () =>
    connected(async (client) => {
      for (let number = 0; number < 20; number += 1) {
        const query = { name: "plus", text: "SELECT $1::integer AS x", values: [number] };
        assert.deepEqual((await client.query(query)).rows, [{ x: number }]);
      }
    }),
  "cursors take rows as they go": () =>
    connected(async (client) => {
      const cursor = client.query(new Cursor(NUMBERS, [5000]));
      assert.deepEqual((await cursor.read(3)).map((row) => row.x), ["1", "2", "3"]);
      assert.equal((await cursor.read(4000)).length, 4000);
      assert.equal((await cursor.read(4000)).length, 997);
      assert.equal((await cursor.read(1)).length, 0);
      const another = client.query(new Cursor(NUMBERS, [5000]));
      assert.equal((await another.read(10)).length, 10);
      await another.close();
      assert.equal((await client.query("SELECT count(*) FROM (SELECT 1) t")).rows[0].count, "1");
    }),
  "rows are streamed": () =>
    connected(async (client) => {
      let sum = 0;
      for await (const row of client.query(new QueryStream(NUMBERS, [20000], { batchSize: 100 }))) {
        sum += Number(row.x);
      }
      assert.equal(sum, 200010000);
    }),
  "COPY in and out": () =>
    connected(async (client) => {
      await client.query("DROP TABLE IF EXISTS node_c");
      await client.query("CREATE TABLE node_c (k BIGINT, v TEXT)");
      const lines = Array.from({ length: 10000 }, (_, number) => `${number}\tv${number}\n`);
      await pipeline(Readable.from(lines), client.query(copyFrom("COPY node_c FROM STDIN")));
      let bytes = "";
      const out = new Writable({
        write(chunk, _encoding, done) {
          bytes += chunk;
          done();
        },
      });
      const text = "COPY (SELECT * FROM node_c ORDER BY k) TO STDOUT";
      await pipeline(client.query(copyTo(text)), out);
      assert.equal(bytes, lines.join(""));
    }),
  "transactions": () =>
    connected(async (client) => {
      await client.query("DROP TABLE IF EXISTS node_t");
      await client.query("CREATE TABLE node_t (x BIGINT)");
      await client.query("BEGIN");
      assert.equal((await client.query("INSERT INTO node_t VALUES (1), (2)")).rowCount, 2);
      await client.query("ROLLBACK");
      const { rows } = await client.query("SELECT count(*) AS n FROM node_t");
      assert.deepEqual(rows, [{ n: "0" }]);
    }),
  "errors have their states": () =>
    connected(async (client) => {
      await assert.rejects(client.query("SELECT * FROM missing_table"), { code: "42P01" });
      await assert.rejects(client.query("SELECT 1 / $1::integer", [0]), { code: "22012" });
      await assert.rejects(client.query("SELEC 1"), { code: "42601" });
      assert.equal((await client.query("SELECT 'x' AS x")).rows[0].x, "x");
    }),
  "a pool serves many at once": async () => {
    const pool = new pg.Pool({ ...place, max: 4 });
    const asked = Array.from({ length: 40 }, (_, n) => pool.query("SELECT $1::integer AS x", [n]));
    const found = (await Promise.all(asked)).map((result) => result.rows[0].x);
    assert.deepEqual(found, Array.from({ length: 40 }, (_, n) => n));
    await pool.end();
  },
  "late statements end": () =>
    connected(async (client) => {
      await client.query("SET statement_timeout = 300");
      const endless = "SELECT count(*) FROM generate_series(1, 1000000000000) a";
      await assert.rejects(client.query(endless), { code: "57014" });
    }),
};

const names = Object.keys(checks);
console.log(`1..${names.length}`);
let failed = 0;
for (const [index, name] of names.entries()) {
  try {
    await checks[name]();
    console.log(`ok ${index + 1} - ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${index + 1} - ${name}`);
    for (const line of String(error.stack).split("\n")) {
      console.log(`# ${line}`);
    }
  }
}
process.exit(failed > 0 ? 1 : 0);
