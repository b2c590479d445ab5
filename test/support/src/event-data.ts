/** The data of an event whose type the test states elsewhere, by any name. */
export const fieldsOf = (
  event: { readonly data: object } | undefined,
): Readonly<Record<string, unknown>> => ({ ...event?.data });
