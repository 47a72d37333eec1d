import adbc_driver_flightsql.dbapi as f, time, resource
c=f.connect("grpc://127.0.0.1:8898", autocommit=True); cur=c.cursor()
for _ in range(5):
    cur.execute("SELECT k, s, f FROM wire_rows"); r=cur.fetch_record_batch(); n=sum(b.num_rows for b in r)
r=resource.getrusage(resource.RUSAGE_SELF); print("client cpu/fetch", (r.ru_utime+r.ru_stime)/5)
