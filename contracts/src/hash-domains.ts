/** Domains of the tenant's blind indexes. The write and the search of a hash must use the same domain. */
export const hashDomains = { searchIndex: 'search_index' } as const;
