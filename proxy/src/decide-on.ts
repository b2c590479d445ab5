/**
 * Decides by the present rights first, then by whether tokens are there. `checking` is begun together with the reading of `decision`, so that they
 * share one look at each token. The tokens that code was shown are looked at after that reading: it may take long, by the tokens that the request
 * names. @throws DomainError
 */
export async function decideOn(
  decision: Promise<() => Promise<void>>,
  checking: Promise<unknown> | undefined,
  requireThere: () => Promise<void>,
): Promise<void> {
  checking?.catch(() => undefined);
  const decide = await decision;
  await checking?.catch(() => undefined);
  const there = requireThere();
  await there.catch(() => undefined);
  await decide();
  await checking;
  await there;
}
