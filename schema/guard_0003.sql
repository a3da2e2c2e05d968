-- The name of a table whose rows the Down of version 3 would drop without a check.
SELECT CASE
    WHEN EXISTS (SELECT FROM audit_holds) THEN 'audit_holds'
    WHEN EXISTS (SELECT FROM audit_checkpoints) THEN 'audit_checkpoints'
    ELSE ''
END
