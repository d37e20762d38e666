-- name: leaders
select role, holder, until_at - :now from holdfast_leader;

-- name: take_lead
-- A lease that ends later than any could was written before the clock was set back: it excludes no one.
insert into holdfast_leader (role, holder, until_at) values (:role, :holder, :now + :lease)
    on conflict (role) do update set holder = excluded.holder, until_at = excluded.until_at
 where holdfast_leader.holder = excluded.holder
    or holdfast_leader.until_at <= :now
    or holdfast_leader.until_at > :now + 2 * :lease
returning role;

-- name: resign_lead
delete from holdfast_leader where holder = :holder returning role;
