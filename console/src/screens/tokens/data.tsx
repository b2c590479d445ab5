import type { Token } from '@token-vault/contracts';

/** The data of a token as the vault gave it to the console: masked, or nothing. */
export function Data({ token: { data } }: { readonly token: Token }) {
  if (data === undefined) return <span className="muted">left out</span>;
  if (typeof data !== 'object' || data === null) return <code>{String(data)}</code>;
  return (
    <span className="row">
      {Object.entries(data).map(([name, value]) => (
        <span key={name}>
          <span className="muted small">{name}</span>{' '}
          <code>{typeof value === 'string' ? value : JSON.stringify(value)}</code>
        </span>
      ))}
    </span>
  );
}
