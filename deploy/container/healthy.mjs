// Exits with 0 when the process in this container is ready.
const url = `http://127.0.0.1:${process.env.VAULT_PORT ?? 8080}/health/${process.argv[2] ?? 'ready'}`;
const isHealthy = await fetch(url, { signal: AbortSignal.timeout(2500) }).then(
  ({ ok }) => ok,
  () => false,
);
process.exit(isHealthy ? 0 : 1);
