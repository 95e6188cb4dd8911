"""How connections log in: credentials and tokens from files, endpoints, AWS and Kerberos."""
