-- `rqfast schema finish`, when the last worker of the plain transport is gone: the triggers of compat.sql go, and do not
-- come back.  In one transaction, any number of times, while clients of rqfast go on.

-- name: drop_old_publish
DROP TRIGGER IF EXISTS {old_publish}

-- name: drop_old_group
DROP TRIGGER IF EXISTS {old_group}

-- name: drop_old_claim
DROP TRIGGER IF EXISTS {old_claim}

-- name: drop_old_nack
DROP TRIGGER IF EXISTS {old_nack}

-- name: drop_old_ack
DROP TRIGGER IF EXISTS {old_ack}

-- name: drop_old_held
DROP TRIGGER IF EXISTS {old_held}

-- name: drop_old_run
DROP TRIGGER IF EXISTS {old_run}

-- name: drop_old_done
DROP TRIGGER IF EXISTS {old_done}

-- name: drop_old_drain
DROP TRIGGER IF EXISTS {old_drain}
