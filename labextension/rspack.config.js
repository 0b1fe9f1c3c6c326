// Numbers in their order, and not from hashes in which the folder's path is: the same source makes the same files
// wherever it is built.
module.exports = { optimization: { chunkIds: 'natural', moduleIds: 'natural' } };
