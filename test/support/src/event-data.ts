/** The data of an event as an object of any properties, for tests that check the type of the event elsewhere. */
export const fieldsOf = (
  event: { readonly data: object } | undefined,
): Readonly<Record<string, unknown>> => ({ ...event?.data });
