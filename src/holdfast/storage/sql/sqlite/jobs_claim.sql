-- name: claim_signs
-- Whether rows have come due, and whether suspects wait. Both are rare, and this check takes 5 µs, where a claim of
-- suspects that finds none takes 110. The indexes are named, because another one covers both conditions and would be
-- read to its end.
select exists (select 1 from holdfast_live indexed by holdfast_live_later where due = 0 and not_before <= :now),
       exists (select 1 from holdfast_live indexed by holdfast_live_suspect where due = 3);

-- name: promote_due
-- Differs: only Postgres has rows that others may have locked.
update holdfast_live
   set due = case suspect when 1 then 3 else 1 end
 where id in (select id from holdfast_live where due = 0 and not_before <= :now order by not_before limit :n)
returning 1;

-- name: claim_jobs
-- Each route is probed by prefix equality on holdfast_live_ready and gives at most n rows, so the cost depends
-- neither on the backlog nor on future rows. The write lock is held: what is read stays ready until it is taken, and to
-- return rows from the update would cost a second reading of each.
-- Differs: there is no round trip to save, so nothing is taken by a lone statement.
select @taken(live)
  from (select job.id
          from json_each(:routes) as r
         cross join holdfast_live as job
            on job.id in (select head.id from holdfast_live as head
                              where head.due = 1 and head.route = r.value ->> '$.route'
                                and head.priority >= coalesce(r.value ->> '$.least', -32768)
                                and head.priority <= coalesce(r.value ->> '$.most', 32767)
                                and head.rank >= coalesce(r.value ->> '$.since', -9223372036854775807)
                              order by head.priority desc, head.rank, head.id limit :n)
         where not exists (select 1 from holdfast_queue as q
                            where q.name = r.value ->> '$.queue'
                            and (q.state in ('paused', 'disabled') or q.cool_until > :now))
         order by r.value ->> '$.tier', job.priority desc, job.rank, job.id
         limit :n) as first
 cross join holdfast_live as live on live.id = first.id
 cross join holdfast_job as job on job.id = live.id
 where exists (select 1 from holdfast_worker where id = :owner and state = 'alive')
   and :lone = 0;
-- then:
update holdfast_live
   set state = 'running', due = null, owner = :owner, claim = :claim, epoch = epoch + 1, attempts = attempts + 1,
       claimed_at = :now, started_at = coalesce(started_at, :now),
       holds = case when limits ->> '$.breaker' is null
                    then case when limits ->> '$.key' is not null then json_array(limits ->> '$.key') end
                    when limits ->> '$.key' is null then json_array('breaker:' || (limits ->> '$.breaker'))
                    else json_array(limits ->> '$.key', 'breaker:' || (limits ->> '$.breaker')) end,
       dedupe_held = case when dedupe_held is not null
                               and (select job.dedupe_until from holdfast_job as job where job.id = holdfast_live.id) <> 'start'
                          then dedupe_held end
 where id in (select value from json_each(:ids)) and due = 1;

-- name: claim_suspects
-- The same claim over holdfast_live_suspect. `alone` says that nothing else runs in the worker meanwhile.
update holdfast_live
   set state = 'running', due = null, owner = :owner, claim = :claim, epoch = epoch + 1, attempts = attempts + 1,
       claimed_at = :now, started_at = coalesce(started_at, :now),
       holds = case when limits ->> '$.breaker' is null
                    then case when limits ->> '$.key' is not null then json_array(limits ->> '$.key') end
                    when limits ->> '$.key' is null then json_array('breaker:' || (limits ->> '$.breaker'))
                    else json_array(limits ->> '$.key', 'breaker:' || (limits ->> '$.breaker')) end, alone = :alone,
       dedupe_held = case when dedupe_held is not null
                               and (select job.dedupe_until from holdfast_job as job where job.id = holdfast_live.id) <> 'start'
                          then dedupe_held end
 where id in (
       select job.id
         from json_each(:routes) as r
        cross join holdfast_live as job
           on job.id in (select head.id from holdfast_live as head
                             where head.due = 3 and head.route = r.value ->> '$.route'
                             order by head.priority desc, head.rank, head.id limit :n)
        where not exists (select 1 from holdfast_queue as q
                           where q.name = r.value ->> '$.queue'
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now))
        order by r.value ->> '$.tier', job.priority desc, job.rank, job.id
        limit :n)
   and exists (select 1 from holdfast_worker where id = :owner and state = 'alive')
returning id;
-- then: RETURNING cannot join
select @claimed(live)
  from json_each(:ids) as taken
 cross join holdfast_live as live on live.id = taken.value
 cross join holdfast_job as job on job.id = live.id;
