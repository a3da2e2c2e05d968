-- The first table that holds something that version 3's Down would drop unseen.
SELECT CASE
    WHEN EXISTS (SELECT FROM audit_holds) THEN 'audit_holds'
    WHEN EXISTS (SELECT FROM audit_checkpoints) THEN 'audit_checkpoints'
    ELSE ''
END
