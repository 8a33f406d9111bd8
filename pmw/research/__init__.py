"""What no session runs: audits, the offline variant, applications, further sparse vectors."""
